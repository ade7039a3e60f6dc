// The page: load the model, take what is dropped, pasted, chosen or typed, and show what the model says.

import { largest, openModel } from "./model.mjs";
import { decode } from "./picture.mjs";
import { resize } from "./pillow.mjs";
import { readRows } from "./rows.mjs";

const MOST_SHOWN = 5, SIDE = 160;
const find = (name) => document.getElementById(name);
const MOST_NAMED = 20;
const percent = (share) => `${(100 * share).toFixed(1)}%`;
const STAYS = { image: "Pictures", text: "Texts", rows: "Rows" };

// An element with text or children; texts are never read as HTML.
function make(tag, properties, ...inside) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...inside);
  return made;
}

function say(text, state) {
  find("status").textContent = text;
  if (state) document.documentElement.dataset.state = state;
}

async function load() {
  const about = await (await fetch("model.json")).json();
  async function bytesOf(name) {
    const { bytes, sha256 } = about.files[name];
    say(`Loading ${name}, ${(bytes / 1e6).toFixed(1)} MB.`);
    const answer = await fetch(name, { integrity: `sha256-${sha256}` });
    if (!answer.ok) throw new Error(`${name} is not there (${answer.status}).`);
    return new Uint8Array(await answer.arrayBuffer());
  }
  const ort = await import("./ort.wasm.min.mjs");
  ort.env.wasm.numThreads = 1; // more would need headers that few hosts send
  ort.env.wasm.wasmPaths = { mjs: new URL("ort-wasm-simd-threaded.mjs", import.meta.url).href };
  ort.env.wasm.wasmBinary = await bytesOf("ort-wasm-simd-threaded.wasm");
  return [about, await openModel(ort, about, bytesOf)];
}

async function start() {
  let about, model;
  try {
    [about, model] = await load();
  } catch (problem) {
    say(`The model could not be loaded: ${problem.message}`, "failed");
    return;
  }
  const given = [], queue = [];
  let busy = false;

  function ask(inputs) {
    queue.push(...inputs);
    if (!busy) work();
  }

  async function work() {
    busy = true;
    for (let done = 1; queue.length > 0; done++) {
      say(`Working: ${done} of ${done + queue.length - 1}.`);
      await new Promise((resolve) => setTimeout(resolve)); // lets the browser paint
      const input = queue.shift(), one = { name: input.name };
      try {
        Object.assign(one, await input.read());
        one.answer = await model.answer(one.row);
      } catch (problem) {
        one.problem = problem.message;
      }
      given.splice(done - 1, 0, one); // the latest first, and what came together in its order
      find("results").insertBefore(shown(one, about, model), find("results").children[done - 1] ?? null);
      find("answers").hidden = false;
    }
    busy = false;
    const [latest] = given; // is read aloud by screen readers
    const told = latest && (latest.problem ?? `Answer: ${about.classes[latest.answer.label]}.`);
    say([told, ready()].filter(Boolean).join(" "));
  }

  const ready = () => {
    const offline = document.documentElement.dataset.offline ? " This page now works offline." : "";
    return `Ready. ${STAYS[about.kind]} stay on this computer.${offline}`;
  };

  function again() {
    find("results").replaceChildren(...given.map((one) => shown(one, about, model)));
    find("answers").hidden = given.length === 0;
  }

  prepare(about, model, ask, again);
  find("save").addEventListener("click", () => save(given, about, model));
  find("clear").addEventListener("click", () => { given.length = 0; again(); say(ready()); });
  say(ready(), "ready");
  if (await workOffline()) {
    document.documentElement.dataset.offline = "yes";
    if (!busy) say(ready());
  }
}

// Show what is asked for, and listen.
function prepare(about, model, ask, again) {
  const form = find("ask"), part = form.querySelector(`[data-kind=${about.kind}]`);
  form.querySelector("fieldset").disabled = false;
  part.hidden = false;
  find("scores").textContent = about.scores;
  find("columns").textContent = about.columns === null ? `${about.width} numbers`
    : about.columns.slice(0, 8).join(", ") + (about.columns.length > 8 ? " …" : "");
  if (about.sets.length > 0) {
    find("coverage").append(...about.sets.map(({ coverage }, place) =>
      make("option", { value: place, selected: coverage === 0.9 }, `${Math.round(100 * coverage)}%`)));
    find("confidence").textContent = `${Math.round(100 * about.sets[0].confidence)}%`;
    find("coverage-line").hidden = false;
    find("coverage").addEventListener("change", again);
  }
  const fromFiles = (files) => [...files].map((file) => ({
    name: file.name,
    async read() {
      const picture = await decode(new Uint8Array(await file.arrayBuffer()));
      return { row: await model.rowOfPicture(picture), canvas: thumbnail(picture) };
    },
  }));
  const fromText = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => ({
    name: line,
    read: async () => ({ row: await model.rowOfText(line) }),
  }));
  const fromRows = (text) => {
    try {
      const { rows, names } = readRows(text, about.width, about.columns);
      return rows.map((row, place) => ({ name: names[place], read: async () => ({ row }) }));
    } catch (problem) {
      return [{ name: "table", async read() { throw problem; } }];
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (about.kind === "text") ask(fromText(find("texts").value));
    if (about.kind === "rows") ask(fromRows(find("table").value));
  });
  find("pictures").addEventListener("change", (event) => {
    ask(fromFiles(event.target.files));
    event.target.value = "";
  });
  find("csv").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (file) ask(fromRows(await file.text()));
    event.target.value = "";
  });
  if (about.kind === "text") return;
  const take = async (files) => {
    if (about.kind === "image") ask(fromFiles(files));
    else for (const file of files) ask(fromRows(await file.text()));
  };
  addEventListener("dragover", (event) => { event.preventDefault(); part.classList.add("over"); });
  addEventListener("dragleave", () => part.classList.remove("over"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    part.classList.remove("over");
    take(event.dataTransfer.files);
  });
  if (about.kind === "image") addEventListener("paste", (event) => take(event.clipboardData.files));
}

function thumbnail(picture) {
  const scale = Math.min(1, SIDE / Math.max(picture.width, picture.height));
  const [width, height] = [picture.width, picture.height].map((side) => Math.max(1, Math.round(side * scale)));
  const { data } = resize(picture, width, height, "bilinear");
  const image = new ImageData(width, height);
  for (let pixel = 0; pixel < width * height; pixel++) {
    image.data.set([...data.subarray(3 * pixel, 3 * pixel + 3), 255], 4 * pixel);
  }
  const canvas = make("canvas", { width, height });
  canvas.getContext("2d").putImageData(image, 0, 0);
  canvas.setAttribute("aria-hidden", "true");
  return canvas;
}

function members(one, about, model) {
  return about.sets.length === 0 ? null : model.setOf(one.answer, about.sets[find("coverage").value].threshold);
}

// One answer, as a list item.
function shown(one, about, model) {
  const said = make("div", { className: "said" });
  const item = make("li", { className: one.problem ? "failed" : "" }, ...(one.canvas ? [one.canvas] : []), said);
  if (one.problem) {
    said.append(make("h3", {}, one.problem), make("p", { className: "name" }, one.name));
    return item;
  }
  const { label, probabilities, words } = one.answer, set = members(one, about, model);
  const rows = largest(probabilities, MOST_SHOWN).map(([place, share]) => {
    const filled = make("i", {});
    filled.style.width = percent(share);
    return make("tr", { className: set?.includes(place) ? "member" : "" },
      make("th", { scope: "row" }, about.classes[place]),
      make("td", {}, make("span", { className: "bar", ariaHidden: "true" }, filled)),
      make("td", { className: "number" }, percent(share)));
  });
  said.append(make("h3", {}, about.classes[label]), make("p", { className: "name" }, one.name),
    make("table", {}, make("tbody", {}, ...rows)));
  if (set) {
    const names = set.slice(0, MOST_NAMED).map((place) => about.classes[place]).join(", ");
    const rest = set.length - MOST_NAMED;
    const text = set.length === about.classes.length ? "every class" : names + (rest > 0 ? ` and ${rest} more` : "");
    said.append(make("p", { className: "also" }, make("strong", {}, "Prediction set: "), `${text}.`));
  }
  if (words) {
    const text = words.map(([place, share]) => `${about.words[place]} (${percent(share)})`).join(", ");
    said.append(make("p", { className: "also" }, make("strong", {}, "The encoder alone sees: "), `${text}.`));
  }
  return item;
}

function save(given, about, model) {
  const cell = (text) => `"${String(text).replaceAll('"', '""')}"`;
  const lines = given.filter((one) => one.answer).map((one) => {
    const { label, probabilities } = one.answer;
    const set = members(one, about, model)?.map((place) => about.classes[place]);
    return [cell(one.name), cell(about.classes[label]), probabilities[label].toFixed(6),
      ...(set ? [cell(JSON.stringify(set))] : [])].join(",");
  });
  const header = about.sets.length > 0 ? "input,label,score,set" : "input,label,score";
  const url = URL.createObjectURL(new Blob([[header, ...lines, ""].join("\n")], { type: "text/csv" }));
  make("a", { href: url, download: "answers.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

// Whether the page will load without a network: its files are stored, each checked by its hash.
async function workOffline() {
  if (!("serviceWorker" in navigator)) return false;
  try {
    const registration = await navigator.serviceWorker.register("sw.js", { updateViaCache: "none" });
    if (registration.active) registration.addEventListener("updatefound", tellOfNewer);
    const worker = registration.installing ?? registration.waiting ?? registration.active;
    while (worker.state !== "activated") {
      if (worker.state === "redundant") return false;
      await new Promise((resolve) => worker.addEventListener("statechange", resolve, { once: true }));
    }
    return true;
  } catch {
    return false;
  }
}

function tellOfNewer({ target }) {
  const worker = target.installing;
  worker.addEventListener("statechange", () => {
    if (worker.state === "activated") find("newer").hidden = false;
  });
}

start();
