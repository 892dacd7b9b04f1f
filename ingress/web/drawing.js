// How long a result takes from its frame to the page, for whoever looks at this page's performance.

/** Measure the time from the arrival of a frame to its drawing. */
export function measure(arrived) {
  requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    // Behind the frame that was just drawn.
    port1.onmessage = () => {
      performance.measure("inferq.drawn", { start: arrived, end: performance.now() });
      port1.close();
      if (performance.getEntriesByName("inferq.drawn").length > 1000) performance.clearMeasures("inferq.drawn");
    };
    port2.postMessage(null);
  });
}
