// A picture file as the pixels that Pillow reads: what the file says of itself, and the browser's decoder.

import { overWhite, upright } from "./pillow.mjs";

const ELSEWHERE = "Use 'dptransfer predict' for it.";
const text = (bytes, start, length) => String.fromCharCode(...bytes.subarray(start, start + length));

// The EXIF orientation in a TIFF header, 0 where there is none. It is set to 1: browsers would turn the picture.
function takeOrientation(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const little = text(bytes, 0, 2) === "II";
  try {
    const table = view.getUint32(4, little), count = view.getUint16(table, little);
    for (let entry = table + 2; entry < table + 2 + 12 * count; entry += 12) {
      if (view.getUint16(entry, little) !== 0x112) continue;
      const found = view.getUint16(entry + 8, little);
      view.setUint16(entry + 8, 1, little);
      return found;
    }
  } catch (problem) {
    if (!(problem instanceof RangeError)) throw problem; // a damaged tag is no reason to lose the picture
  }
  return 0;
}

const orientationInXmp = (bytes) =>
  Number(new TextDecoder("latin1").decode(bytes).match(/tiff:Orientation(?:="|>)([0-9])/)?.[1] ?? 0);

function* jpegParts(bytes) {
  for (let at = 2; at + 4 <= bytes.length && bytes[at] === 0xff;) {
    const marker = bytes[at + 1], length = bytes[at + 2] * 256 + bytes[at + 3];
    if (marker === 0xda) return;
    if (marker === 0xff) { at++; continue; } // a byte that fills
    yield [marker, bytes.subarray(at + 4, at + 2 + length)];
    at += 2 + length;
  }
}

function* chunks(bytes, start, lengthFirst, little, rest) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = start; at + 8 <= bytes.length;) {
    const length = view.getUint32(at + (lengthFirst ? 0 : 4), little);
    yield [text(bytes, at + (lengthFirst ? 4 : 0), 4), bytes.subarray(at + 8, at + 8 + length)];
    at += 8 + length + (little ? length % 2 : rest);
  }
}

// Type and orientation of a file, which is set to 1 in it; throws for one that browsers do not read as Pillow does.
export function inspect(bytes) {
  let exif = 0, xmp = 0;
  const note = (isExif, part) => {
    if (isExif) exif = takeOrientation(part) || exif;
    else xmp ||= orientationInXmp(part);
  };
  if (text(bytes, 0, 2) === "\xff\xd8") {
    for (const [marker, part] of jpegParts(bytes)) {
      if (marker === 0xe1 && text(part, 0, 6) === "Exif\0\0") note(true, part.subarray(6));
      else if (marker === 0xe1 && text(part, 0, 28) === "http://ns.adobe.com/xap/1.0/") note(false, part);
      else if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker) && part[5] === 4) {
        throw new Error(`This JPEG has printing colours (CMYK), which browsers convert each in its own way. ${ELSEWHERE}`);
      }
    }
    return { type: "image/jpeg", orientation: exif || xmp || 1 };
  }
  if (text(bytes, 0, 8) === "\x89PNG\r\n\x1a\n") {
    for (const [name, part] of chunks(bytes, 8, true, false, 4)) {
      if (name === "IHDR" && part[8] === 16) {
        throw new Error(`This PNG has 16 bits a value, of which browsers show eight. ${ELSEWHERE}`);
      }
      if (name === "eXIf") note(true, part);
      if (name === "iTXt" && text(part, 0, 17) === "XML:com.adobe.xmp") note(false, part);
    }
    return { type: "image/png", orientation: exif || xmp || 1 };
  }
  if (text(bytes, 0, 4) === "RIFF" && text(bytes, 8, 4) === "WEBP") {
    for (const [name, part] of chunks(bytes, 12, false, true, 0)) {
      if (name === "EXIF") note(true, text(part, 0, 6) === "Exif\0\0" ? part.subarray(6) : part);
      if (name === "XMP ") note(false, part);
    }
    return { type: "image/webp", orientation: exif || xmp || 1 };
  }
  if (text(bytes, 0, 4) === "GIF8") return { type: "image/gif", orientation: 1 };
  throw new Error(`This page reads JPEG, PNG, WebP and GIF; the file is none of them. ${ELSEWHERE}`);
}

// RGB of a file, upright, what is transparent over white.
export async function decode(bytes) {
  const { type, orientation } = inspect(bytes);
  const asStored = { premultiplyAlpha: "none", colorSpaceConversion: "none" };
  let bitmap;
  try {
    bitmap = await createImageBitmap(new Blob([bytes], { type }), asStored);
  } catch {
    throw new Error("This picture is damaged: the browser cannot read it.");
  }
  try {
    return overWhite(upright(pixelsOf(bitmap), orientation));
  } finally {
    bitmap.close();
  }
}

// RGBA with straight alpha. A canvas keeps colours times alpha, so what is transparent is read by way of WebGL.
function pixelsOf(bitmap) {
  const { width, height } = bitmap;
  const canvas = new OffscreenCanvas(width, height), context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(bitmap, 0, 0);
  const data = context.getImageData(0, 0, width, height).data;
  let opaque = true;
  for (let at = 3; opaque && at < data.length; at += 4) opaque = data[at] === 255;
  const straight = opaque ? null : straightPixels(bitmap);
  return { data: straight ?? data, width, height, channels: 4 };
}

function straightPixels(bitmap) {
  const { width, height } = bitmap, canvas = new OffscreenCanvas(1, 1), gl = canvas.getContext("webgl2");
  if (gl === null || Math.max(width, height) > gl.getParameter(gl.MAX_TEXTURE_SIZE)) return null;
  gl.pixelStorei(gl.UNPACK_PREMULTIPLY_ALPHA_WEBGL, false);
  gl.pixelStorei(gl.UNPACK_COLORSPACE_CONVERSION_WEBGL, gl.NONE);
  gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
  gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, bitmap);
  gl.bindFramebuffer(gl.FRAMEBUFFER, gl.createFramebuffer());
  const texture = gl.getParameter(gl.TEXTURE_BINDING_2D);
  gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, texture, 0);
  if (gl.checkFramebufferStatus(gl.FRAMEBUFFER) !== gl.FRAMEBUFFER_COMPLETE) return null;
  const data = new Uint8Array(width * height * 4);
  gl.readPixels(0, 0, width, height, gl.RGBA, gl.UNSIGNED_BYTE, data);
  gl.getExtension("WEBGL_lose_context")?.loseContext();
  return data;
}
