// Models whose layers change between the backends of an engine.
import type { Engine } from "../ts/runtime/engine.ts";

/**
 * The next model that is loaded has every second layer pinned to the CPU, the first one to the first device. What comes
 * after the layers counts as one more, as `gpuLayers` counts.
 */
export function pinEverySecondLayer(engine: Engine, nLayer: number): void {
  const allocate = engine.allocate.bind(engine);
  const names = [engine.devices[0]!.name, engine.backend.name];
  engine.allocate = (tensors, use) => {
    engine.allocate = allocate;
    for (const t of tensors) {
      const layer = Number(/^blk\.(\d+)/.exec(t.name)?.[1] ?? nLayer);
      engine.pin(t, names[layer % 2]);
    }
    return allocate(tensors, use);
  };
}
