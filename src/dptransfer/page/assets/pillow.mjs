// Pillow's arithmetic on pixels, byte for byte: resize, centre crop, orientation, transparency over white.
// A picture is {data, width, height, channels}, rows from the top, data a Uint8Array or Uint8ClampedArray.

const PRECISION = 22; // bits of a weight; 8 for the pixel and 2 for overshoot make 32
const MOST_PIXELS = 2 ** 27;
const HAMMING = [0.54, 0.46].map(Math.fround); // Pillow has floats there

const sinc = (x) => (x === 0 ? 1 : Math.sin(x * Math.PI) / (x * Math.PI));

// How far each filter reaches, in pixels of the smaller picture, and its weight at a distance.
const FILTERS = {
  box: [0.5, (x) => (x > -0.5 && x <= 0.5 ? 1 : 0)],
  bilinear: [1, (x) => Math.max(0, 1 - Math.abs(x))],
  hamming: [1, (x) => {
    const turn = Math.abs(x) * Math.PI;
    if (turn === 0) return 1;
    return Math.abs(x) >= 1 ? 0 : (Math.sin(turn) / turn) * (HAMMING[0] + HAMMING[1] * Math.cos(turn));
  }],
  bicubic: [2, (x) => {
    const a = -0.5, far = Math.abs(x);
    if (far < 1) return ((a + 2) * far - (a + 3)) * far * far + 1;
    return far < 2 ? (((far - 5) * far + 8) * far - 4) * a : 0;
  }],
  lanczos: [3, (x) => (x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0)],
};

// When Pillow shrinks the height before the width: it rounds to bytes in between, so the order shows.
const HEIGHT_FIRST = {
  never: () => false, // to 12.2
  strips: (before, after) => before.height > 100 * before.width && after.height < before.height, // 12.3
  shrinking: (before, after) => // from 13 on
    after.height < before.height && before.height - after.height > 2 * (before.width - after.width),
};

// For each new place along one side: where its pixels begin, and their weights as whole numbers.
function weightsAlong(before, after, [reach, weightAt]) {
  const scale = before / after, stretch = Math.max(scale, 1), support = reach * stretch;
  return Array.from({ length: after }, (_, place) => {
    const centre = (place + 0.5) * scale;
    const start = Math.max(Math.trunc(centre - support + 0.5), 0);
    const count = Math.min(Math.trunc(centre + support + 0.5), before) - start;
    const weights = new Float64Array(count);
    let total = 0;
    for (let at = 0; at < count; at++) {
      weights[at] = weightAt((at + start - centre + 0.5) * (1 / stretch));
      total += weights[at];
    }
    return { start, weights: Int32Array.from(weights, (one) => {
      const share = total === 0 ? one : one / total;
      return Math.trunc((share < 0 ? -0.5 : 0.5) + share * 2 ** PRECISION);
    }) };
  });
}

// One pass: lines of `count` pixels; `step` values between the pixels of a line, `next` between lines.
function pass(source, target, weights, lines, channels, from, to) {
  weights.forEach(({ start, weights: own }, place) => {
    for (let line = 0; line < lines; line++) {
      for (let channel = 0; channel < channels; channel++) {
        let sum = 2 ** (PRECISION - 1), at = line * from.next + start * from.step + channel;
        for (let i = 0; i < own.length; i++, at += from.step) sum += source[at] * own[i];
        const level = sum >> PRECISION;
        target[line * to.next + place * to.step + channel] = level < 0 ? 0 : level > 255 ? 255 : level;
      }
    }
  });
}

// `heightFirst` names the rule of the Pillow that is to be matched.
export function resize(picture, width, height, filter = "bicubic", heightFirst = "never") {
  if (filter === "nearest") return nearest(picture, width, height);
  const passes = [acrossTo(width, FILTERS[filter]), downTo(height, FILTERS[filter])];
  if (HEIGHT_FIRST[heightFirst](picture, { width, height })) passes.reverse();
  return passes.reduce((made, one) => one(made), picture);
}

const acrossTo = (width, filter) => (picture) => {
  if (picture.width === width) return picture;
  const { data, width: before, height, channels } = picture, target = new Uint8Array(width * height * channels);
  const from = { step: channels, next: before * channels }, to = { step: channels, next: width * channels };
  pass(data, target, weightsAlong(before, width, filter), height, channels, from, to);
  return { data: target, width, height, channels };
};

const downTo = (height, filter) => (picture) => {
  if (picture.height === height) return picture;
  const { data, width, height: before, channels } = picture, target = new Uint8Array(width * height * channels);
  const both = { step: width * channels, next: channels };
  pass(data, target, weightsAlong(before, height, filter), width, channels, both, both);
  return { data: target, width, height, channels };
};

function nearest({ data, width, height, channels }, across, down) {
  const target = new Uint8Array(across * down * channels);
  // Pillow adds the step up, with all its roundings.
  const places = (before, after) => {
    const step = before / after;
    let place = step * 0.5;
    return Array.from({ length: after }, () => { const own = Math.trunc(place); place += step; return own; });
  };
  const columns = places(width, across), rows = places(height, down);
  rows.forEach((row, y) => columns.forEach((column, x) => {
    const from = (row * width + column) * channels;
    for (let i = 0; i < channels; i++) target[(y * across + x) * channels + i] = data[from + i];
  }));
  return { data: target, width: across, height: down, channels };
}

// The picture as an encoder frames it: resized to a shape, or the middle after its shorter side is resized.
export function frame(picture, { height, width, resample, shortest, heightFirst }) {
  if (shortest === null) return resize(picture, width, height, resample, heightFirst);
  const short = Math.min(picture.width, picture.height), long = Math.max(picture.width, picture.height);
  const longer = Math.trunc(shortest * long / short);
  if (shortest * longer > MOST_PIXELS) throw new Error("This picture is too narrow a strip. Cut it.");
  const upright = picture.width <= picture.height;
  const [across, down] = upright ? [shortest, longer] : [longer, shortest];
  const whole = resize(picture, across, down, resample, heightFirst);
  const left = Math.floor((across - width) / 2), above = Math.floor((down - height) / 2);
  const data = new Uint8Array(width * height * whole.channels), line = width * whole.channels;
  for (let y = 0; y < height; y++) {
    const start = ((above + y) * across + left) * whole.channels;
    data.set(whole.data.subarray(start, start + line), y * line);
  }
  return { data, width, height, channels: whole.channels };
}

// Turn or mirror the picture as the EXIF orientation says; 1 and unknown values leave it.
export function upright(picture, orientation) {
  if (!(orientation >= 2 && orientation <= 8)) return picture;
  const { data, width, height, channels } = picture, turned = orientation >= 5;
  const [across, down] = turned ? [height, width] : [width, height];
  const right = width - 1, bottom = height - 1;
  const from = [, , (x, y) => [right - x, y], (x, y) => [right - x, bottom - y], (x, y) => [x, bottom - y],
    (x, y) => [y, x], (x, y) => [y, bottom - x], (x, y) => [right - y, bottom - x],
    (x, y) => [right - y, x]][orientation];
  const target = new Uint8Array(data.length);
  for (let y = 0, to = 0; y < down; y++) {
    for (let x = 0; x < across; x++) {
      const [column, row] = from(x, y), start = (row * width + column) * channels;
      for (let i = 0; i < channels; i++) target[to++] = data[start + i];
    }
  }
  return { data: target, width: across, height: down, channels };
}

// RGB of RGBA with straight alpha, laid over white in Pillow's integers.
export function overWhite({ data, width, height }) {
  const target = new Uint8Array(width * height * 3);
  for (let from = 0, to = 0; from < data.length; from += 4) {
    const alpha = data[from + 3];
    for (let i = 0; i < 3; i++, to++) {
      const sum = (data[from + i] * alpha + 255 * (255 - alpha) + 128) * 128;
      target[to] = alpha === 0 ? 255 : ((sum >> 8) + sum) >> 15;
    }
  }
  return { data: target, width, height, channels: 3 };
}
