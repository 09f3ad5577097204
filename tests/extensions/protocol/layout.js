// How much of a page moved while it loaded (CLS).
window.shifts = () => {
  return new Promise(done => {
    let sum = 0;
    const add = entry => { if (!entry.hadRecentInput) sum += entry.value; };
    new PerformanceObserver(list => list.getEntries().forEach(add)).observe({type: "layout-shift", buffered: true});
    requestAnimationFrame(() => requestAnimationFrame(() => done(sum)));
  });
};

// Elements that are wider than the window.
window.wide = () => {
  return [...document.body.querySelectorAll("*")]
    .filter(one => one.getBoundingClientRect().right > innerWidth + 1)
    .filter(one => !one.closest("pre, .scroll, .body table, .unseen, .skip, svg, .graph"))
    .map(one => one.outerHTML.slice(0, 120));
};

// Names that are not whole, or of one word in several lines.
window.cut = () => {
  return [...document.querySelectorAll(".top nav a, .hit h2 > :first-child, .places span")]
    .filter(one => {
      const { left, right, height } = one.getBoundingClientRect(), around = one.closest("nav, .head, .places li");
      const end = Math.min(innerWidth, around.getBoundingClientRect().right);
      return left < 0 || right > end + 1 || (height > 40 && !one.textContent.includes(" "));
    })
    .map(one => one.textContent);
};
