// Keeps the part of the URL after # across a sign-in; browsers never send it to the console.

export function keepFragment() {
  const form = document.querySelector("form[data-sign-in]");
  if (form && location.hash) form.action = location.href;
}
