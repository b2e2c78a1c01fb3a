// The theme leaves the side bar's heading outside every landmark.
document.addEventListener("DOMContentLoaded", () => {
  const bar = document.querySelector(".bd-sidebar-primary");
  bar?.setAttribute("role", "region");
  bar?.setAttribute("aria-label", "Contents");
});
