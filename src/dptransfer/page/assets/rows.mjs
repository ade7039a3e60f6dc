// Rows of numbers that somebody pasted or dropped: CSV, with or without a line of names.

const SEPARATORS = ["\t", ";", ","];

// {rows, names}: values of each line, and what to call it.
export function readRows(text, width, columns) {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== "");
  if (lines.length === 0) throw new Error("There is no row. Paste one, or choose a CSV file.");
  const separator = SEPARATORS.find((one) => lines[0].includes(one)) ?? /\s+/;
  const cells = lines.map((line) => line.trim().split(separator)
    .map((cell) => cell.trim().replace(/^"(.*)"$/, "$1")));
  const isHeader = cells[0].some((cell) => cell !== "" && Number.isNaN(number(cell)));
  const header = isHeader ? cells.shift() : null;
  const places = placesOf(header, width, columns);
  const rows = cells.map((line, place) => {
    const own = places === null ? line : places.map((at) => line[at] ?? "");
    if (own.length !== width) {
      throw new Error(`Line ${place + 1 + isHeader} must have ${width} numbers; it has ${own.length}.`);
    }
    return Float64Array.from(own, (cell, at) => {
      const value = number(cell);
      if (Number.isNaN(value)) {
        throw new Error(`Line ${place + 1 + isHeader}, value ${at + 1} must be a number; it is not.`);
      }
      return value;
    });
  });
  if (rows.length === 0) throw new Error("There is a line of names and no row below it.");
  return { rows, names: rows.map((_, place) => `row ${place + 1}`) };
}

const number = (cell) => (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(cell) ? Number(cell) : NaN);

// Where the model's columns are; null for lines that have them alone, in order.
function placesOf(header, width, columns) {
  if (header === null || columns === null) {
    if (header !== null && header.length !== width) {
      throw new Error(`The table must have ${width} columns; it has ${header.length}.`);
    }
    return null;
  }
  const missing = columns.filter((name) => !header.includes(name));
  if (missing.length > 0) throw new Error(`The table lacks ${missing.length} of the columns: ${missing.slice(0, 3).join(", ")}.`);
  return columns.map((name) => header.indexOf(name));
}
