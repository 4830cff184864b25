// Puts a text on the clipboard.

/** @throws Error where the browser does not let the page do so. */
export async function copyText(text: string): Promise<void> {
  // Pages that come over plain HTTP from another machine have no clipboard: there the selection is copied.
  if (window.isSecureContext) return navigator.clipboard.writeText(text);
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand('copy');
  area.remove();
  if (!isCopied)
    throw new Error('The browser does not let this page copy: open it over HTTPS, or at localhost');
}
