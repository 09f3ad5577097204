// Shows an answer as it comes: first its sources, then what a model writes, then the answer with checked citations.
"use strict";

const place = document.querySelector("#answer");
if (place) {
  const values = new URLSearchParams(location.search);
  const source = new EventSource(`/ask/stream?${values}`);
  let draft = null;
  const done = () => {
    source.close();
    place.setAttribute("aria-busy", "false");
  };
  source.addEventListener("sources", (event) => {
    place.innerHTML = JSON.parse(event.data);
    draft = document.createElement("pre");
    draft.className = "draft";
    place.prepend(draft);
  });
  source.addEventListener("text", (event) => {
    draft.textContent += JSON.parse(event.data);
  });
  source.addEventListener("answer", (event) => {
    done();
    place.innerHTML = JSON.parse(event.data);
  });
  source.addEventListener("fault", (event) => {
    done();
    const problem = document.createElement("p");
    problem.className = "problem";
    problem.textContent = JSON.parse(event.data);
    place.replaceChildren(problem);
  });
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) return;
    done();
    place.append(Object.assign(document.createElement("p"), { className: "problem", textContent: "The connection was lost. Try again." }));
  };
  addEventListener("pagehide", () => source.close());
}
