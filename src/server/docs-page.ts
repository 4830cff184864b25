// The page at /docs: it reads openapi.json and shows the routes and their fields.

export const DOCS_PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>svc API</title>
<style>
  :root { color-scheme: light dark; --line: #8886; }
  body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
  h1 { font-size: 1.2rem; font-weight: 600; }
  details { border: 1px solid var(--line); border-radius: 4px; margin: .4rem 0; padding: .3rem .7rem; }
  summary { cursor: pointer; }
  code, pre { font-family: ui-monospace, monospace; }
  .method { display: inline-block; min-width: 4rem; font-weight: 600; }
  .about { opacity: .8; }
  table { border-collapse: collapse; margin: .5rem 0; }
  td { border-top: 1px solid var(--line); padding: .15rem 1rem .15rem 0; vertical-align: top; overflow-wrap: anywhere; }
  td + td { opacity: .8; }
</style>
</head>
<body>
<h1>svc API</h1>
<p>The same as <a href="openapi.json">openapi.json</a>, for programs that read OpenAPI.</p>
<main id="paths">Reading openapi.json…</main>
<script>
  const element = (name, text = '', className = '') => {
    const made = document.createElement(name);
    made.textContent = text;
    made.className = className;
    return made;
  };
  const ruleOf = (schema) => {
    if (schema.anyOf) return schema.anyOf.filter((one) => one.type !== 'null').map(ruleOf).join(' or ');
    if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(', ');
    const types = [schema.type ?? 'any'].flat().filter((one) => one !== 'null').join(' or ');
    const least = schema.minimum ?? schema.minLength ?? schema.minItems ?? schema.exclusiveMinimum;
    const most = schema.maximum ?? schema.maxLength ?? schema.maxItems ?? schema.maxProperties;
    const known = (bound) => bound !== undefined && Math.abs(bound) < Number.MAX_SAFE_INTEGER;
    const bounds = [known(least) ? \`from \${least}\` : '', known(most) ? \`to \${most}\` : ''].join(' ').trim();
    const items = schema.type === 'array' && schema.items ? \` of \${ruleOf(schema.items)}\` : '';
    return types + items + (bounds ? \` (\${bounds})\` : '');
  };
  const tableOf = (schema) => {
    const table = element('table');
    for (const [name, field] of Object.entries(schema.properties ?? {})) {
      const row = table.insertRow();
      row.insertCell().append(element('code', name + (schema.required?.includes(name) ? ' *' : '')));
      row.insertCell().textContent = ruleOf(field);
    }
    return table;
  };
  const show = ({ paths }) => {
    const main = document.getElementById('paths');
    main.textContent = '';
    for (const [path, operations] of Object.entries(paths)) {
      for (const [method, operation] of Object.entries(operations)) {
        const details = element('details');
        const summary = element('summary');
        summary.append(element('span', method.toUpperCase(), 'method'), element('code', path));
        summary.append(element('span', operation.summary ? \` — \${operation.summary}\` : '', 'about'));
        details.append(summary);
        const body = operation.requestBody?.content['application/json'].schema;
        for (const one of body?.anyOf ?? [body]) if (one) details.append(tableOf(one));
        if (!body) details.append(element('p', 'No fields.'));
        main.append(details);
      }
    }
  };
  fetch('openapi.json')
    .then((response) => response.json())
    .then(show, (error) => {
      document.getElementById('paths').textContent = \`openapi.json cannot be read: \${error.message}\`;
    });
</script>
</body>
</html>
`;
