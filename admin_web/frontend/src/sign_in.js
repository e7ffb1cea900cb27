// Lets a sign-in lead back to the very line: the part after # never reaches the console.

export function keepPlace() {
  const form = document.querySelector("form[data-sign-in]");
  if (form && location.hash) form.action = location.href;
}
