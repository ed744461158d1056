// Buttons that copy the report as Markdown, and save charts as SVG and PNG. The page is complete
// without them.
(() => {
  const STYLES = [
    'fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'opacity', 'font-family', 'font-size',
    'font-weight', 'text-anchor',
  ];
  const button = (text, label, action) => {
    const made = document.createElement('button');
    made.type = 'button';
    made.textContent = text;
    made.setAttribute('aria-label', label);
    made.addEventListener('click', () => action(made));
    return made;
  };
  // The styles of the page become attributes: a saved chart has no style sheet.
  const alone = (chart) => {
    const copy = chart.cloneNode(true);
    const from = chart.querySelectorAll('*');
    copy.querySelectorAll('*').forEach((element, at) => {
      const style = getComputedStyle(from[at]);
      STYLES.forEach((name) => element.setAttribute(name, style.getPropertyValue(name)));
      element.removeAttribute('class');
    });
    const [, , width, height] = chart.getAttribute('viewBox').split(' ').map(Number);
    copy.setAttribute('width', width);
    copy.setAttribute('height', height);
    const back = document.createElementNS(chart.namespaceURI, 'rect');
    back.setAttribute('width', '100%');
    back.setAttribute('height', '100%');
    back.setAttribute('fill', getComputedStyle(document.body).backgroundColor);
    copy.prepend(back);
    return { text: new XMLSerializer().serializeToString(copy), width, height };
  };
  const save = (blob, name) => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  document.querySelectorAll('figure').forEach((figure) => {
    const chart = figure.querySelector('svg');
    const caption = figure.querySelector('figcaption');
    const title = caption.textContent;
    const name = title.replace(/[^A-Za-z0-9.]+/g, '-').replace(/^-|-$/g, '').toLowerCase();
    const bar = document.createElement('span');
    bar.className = 'save';
    bar.append(
      button('SVG', `Save ${title} as SVG`, () => {
        save(new Blob([alone(chart).text], { type: 'image/svg+xml' }), `${name}.svg`);
      }),
      button('PNG', `Save ${title} as PNG`, () => {
        const { text, width, height } = alone(chart);
        const image = new Image();
        image.onload = () => {
          const canvas = document.createElement('canvas');
          canvas.width = width * 2;
          canvas.height = height * 2;
          canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
          canvas.toBlob((blob) => save(blob, `${name}.png`));
        };
        image.src = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(text);
      }),
    );
    caption.append(bar);
  });
  const markdown = document.getElementById('markdown').content.textContent;
  document.querySelector('header').append(button('Copy as Markdown', 'Copy the report as Markdown', async (made) => {
    await navigator.clipboard.writeText(markdown);
    made.textContent = 'Copied';
  }));
})();
