// A drawing of many generations that does not fit shows the page's own job first.

export function showOwnJob() {
  const own = document.querySelector(".family .self");
  const place = own?.closest(".scroll");
  if (!place) return;
  const [box, frame] = [own.getBoundingClientRect(), place.getBoundingClientRect()];
  place.scrollLeft += box.left + box.width / 2 - (frame.left + frame.width / 2);
}
