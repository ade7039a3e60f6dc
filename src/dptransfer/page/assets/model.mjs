// The released model: inputs to rows by its encoder, rows to labels, scores and sets. Runs in browsers and Node.

import { frame } from "./pillow.mjs";
import { tokenizer } from "./wordpiece.mjs";

// Args: onnxruntime-web; model.json as an object; a function from a file's name to a promise of its bytes.
export async function openModel(ort, about, bytesOf) {
  const session = async (name) =>
    name in about.files ? ort.InferenceSession.create(await bytesOf(name), { executionProviders: ["wasm"] }) : null;
  const encoder = await session("encoder.onnx"), head = await session("head.onnx"), words = await session("words.onnx");
  const tokens = about.kind === "text"
    ? tokenizer(JSON.parse(new TextDecoder().decode(await bytesOf("vocabulary.json"))), about.longest)
    : null;

  async function encode(name, tensor) {
    const [rows] = Object.values(await encoder.run({ [name]: tensor }));
    return rows.data;
  }

  return {
    // The row of an RGB picture, as pillow.mjs has it.
    rowOfPicture(picture) {
      const { data, width, height } = frame(picture, about.framing);
      return encode(about.input, new ort.Tensor("uint8", data, [1, height, width, 3]));
    },
    rowOfText(text) {
      const numbers = tokens(text);
      return encode(about.input, new ort.Tensor("int64", BigInt64Array.from(numbers, BigInt), [1, numbers.length]));
    },
    async answer(row) {
      const given = new ort.Tensor("float64", Float64Array.from(row), [1, about.width]);
      const found = await head.run({ rows: given });
      const said = words && (await words.run({ rows: new ort.Tensor("float32", Float32Array.from(row), [1, about.width]) }));
      return {
        label: Number(found.label_index.data[0]),
        probabilities: Array.from(found.probabilities.data),
        chances: softmax(Array.from(found.scores.data, (score) => score / about.temperature)),
        words: said && largest(Array.from(said.words.data), 3),
      };
    },
    // Positions of the classes in an answer's set: the likeliest, and those from the threshold on.
    setOf({ chances }, threshold) {
      const least = Math.min(threshold, Math.max(...chances)) * (1 - about.slack);
      return chances.flatMap((chance, place) => (chance >= least ? [place] : []));
    },
  };
}

function softmax(logits) {
  const most = Math.max(...logits), weights = logits.map((logit) => Math.exp(logit - most));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
}

// [place, value] of the largest values, the first of equals first.
export function largest(values, count) {
  const places = values.map((_, place) => place).sort((one, other) => values[other] - values[one] || one - other);
  return places.slice(0, count).map((place) => [place, values[place]]);
}
