// The theme leaves the side bar's heading outside every landmark.
document.addEventListener("DOMContentLoaded", () => {
  const bar = document.querySelector(".bd-sidebar-primary");
  bar?.setAttribute("role", "region");
  bar?.setAttribute("aria-label", "Contents");
});

// From a file, a browser may not read the pages that were found for an extract: show their titles alone.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
