// Loaded on the page of a broadcast.
import { followShards } from "../shardlogs.js";

followShards();
