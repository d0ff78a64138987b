// Shows /openapi.json as text.

function element(name, text, ...children) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  made.append(...children);
  return made;
}

function row(name, schema, what, required) {
  const kind = schema?.enum?.join(", ") ?? schema?.type ?? (schema?.anyOf ?? []).map((one) => one.type ?? "object").join(" or ");
  const initial = schema?.default === undefined ? (required ? "required" : "") : `default ${JSON.stringify(schema.default)}`;
  return element("tr", "", element("td", "", element("code", name)), element("td", kind), element("td", initial), element("td", what ?? ""));
}

function fieldsOf(operation, schemas) {
  const rows = (operation.parameters ?? []).map((one) => row(one.name, one.schema, one.description, one.required));
  const content = Object.values(operation.requestBody?.content ?? {})[0];
  const schema = schemas[content?.schema?.$ref?.split("/").pop()];
  for (const [name, field] of Object.entries(schema?.properties ?? {})) {
    rows.push(row(name, field, field.description, schema.required?.includes(name)));
  }
  return rows;
}

const description = await (await fetch("/openapi.json")).json();
const schemas = description.components?.schemas ?? {};
for (const [path, operations] of Object.entries(description.paths)) {
  for (const [method, operation] of Object.entries(operations)) {
    const panel = element("section", "", element("h2", `${method.toUpperCase()} ${path}`), element("p", operation.description));
    panel.className = "panel";
    const rows = fieldsOf(operation, schemas);
    if (rows.length) panel.append(element("table", "", element("tbody", "", ...rows)));
    document.getElementById("routes").append(panel);
  }
}
