// Run the files of a site in Node on inputs from standard input, and print what they give, both as JSON.
// Usage: node self_test.mjs SITE

import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";

const place = (name) => pathToFileURL(resolve(process.argv[2], name)).href;
const bytesOf = (name) => readFile(resolve(process.argv[2], name));
const ort = await import(place("ort.wasm.min.mjs"));
ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmPaths = { mjs: place("ort-wasm-simd-threaded.mjs") };
ort.env.wasm.wasmBinary = await bytesOf("ort-wasm-simd-threaded.wasm");
const { openModel } = await import(place("model.mjs"));
const about = JSON.parse(await bytesOf("model.json"));
const model = await openModel(ort, about, bytesOf);
const found = [];
for (const input of JSON.parse(await text(process.stdin))) {
  const row = about.kind === "rows" ? input : about.kind === "text" ? await model.rowOfText(input)
    : await model.rowOfPicture({ ...input, channels: 3, data: Buffer.from(input.data, "base64") });
  const answer = await model.answer(row);
  const sets = about.sets.map(({ threshold }) => model.setOf(answer, threshold));
  found.push({ row: Array.from(row), label: answer.label, probabilities: answer.probabilities, sets });
}
console.log(JSON.stringify(found));
