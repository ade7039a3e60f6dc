// BERT's uncased WordPiece, as the `tokenizers` package computes it.

const SPACE = /^[\t\n\r]$|^\p{White_Space}$/u, CONTROL = /^[\p{Cc}\p{Cf}\p{Co}]$/u, MARK = /^\p{Mn}$/u;
const PUNCTUATION = /^[!-/:-@[-`{-~]$|^\p{P}$/u;
const LONGEST_WORD = 100;
const CHINESE = [[0x4e00, 0x9fff], [0x3400, 0x4dbf], [0x20000, 0x2a6df], [0x2a700, 0x2b73f],
  [0x2b740, 0x2b81f], [0x2b920, 0x2ceaf], [0xf900, 0xfaff], [0x2f800, 0x2fa1f]];

function* normalised(text) {
  for (const letter of text) {
    const code = letter.codePointAt(0), space = SPACE.test(letter);
    if (code === 0 || code === 0xfffd || (!"\t\n\r".includes(letter) && CONTROL.test(letter))) continue;
    if (space) yield " ";
    else if (CHINESE.some(([low, high]) => low <= code && code <= high)) yield* [" ", letter, " "];
    else yield letter;
  }
}

function words(text) {
  const plain = [...normalised(text)].join("").normalize("NFD");
  const found = [""];
  for (const letter of plain) {
    if (MARK.test(letter)) continue;
    for (const small of letter.toLowerCase()) {
      if (SPACE.test(small)) found.push("");
      else if (PUNCTUATION.test(small)) found.push(small, "");
      else found[found.length - 1] += small;
    }
  }
  return found.filter((word) => word !== "");
}

// Numbers of a word's pieces, the longest first; [unknown] where it has none.
function pieces(word, vocabulary, unknown) {
  const letters = [...word], found = [];
  if (letters.length > LONGEST_WORD) return [unknown];
  for (let start = 0; start < letters.length;) {
    let end = letters.length, number;
    for (; end > start; end--) {
      number = vocabulary.get((start > 0 ? "##" : "") + letters.slice(start, end).join(""));
      if (number !== undefined) break;
    }
    if (number === undefined) return [unknown];
    found.push(number);
    start = end;
  }
  return found;
}

// A function from a text to the numbers of its tokens.
export function tokenizer(vocabulary, longest) {
  const numbers = new Map(vocabulary.map((token, number) => [token, number]));
  const [first, last, unknown] = ["[CLS]", "[SEP]", "[UNK]"].map((token) => numbers.get(token));
  return (text) => {
    const found = text.split(/(\[(?:PAD|UNK|CLS|SEP|MASK)\])/).flatMap((part, place) => place % 2
      ? [numbers.get(part)]
      : words(part).flatMap((word) => pieces(word, numbers, unknown)));
    return [first, ...found.slice(0, longest - 2), last];
  };
}
