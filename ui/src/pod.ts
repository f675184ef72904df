// The pod that was pointed at on the map, so that it stands out among those of its job.
import { store } from "./store";

export const pointedPod = store("");
