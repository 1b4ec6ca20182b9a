"use strict";
// What the scripts of all pages share. Text only ever becomes text (textContent), never markup.
const drawing = (() => {
  const byId = (id) => document.getElementById(id);
  const SVG = byId("space").namespaceURI;

  function make(parent, tag, text, attributes = {}) {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    parent.append(element);
    return element;
  }

  function draw(parent, tag, attributes, text) {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    parent.append(element);
    return element;
  }

  const SUPER = {"-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹"};
  const power = (k) => (k === 0 ? "1" : k === 1 ? "10" : "10" + [...String(k)].map((c) => SUPER[c]).join(""));

  return {byId, make, draw, power};
})();
