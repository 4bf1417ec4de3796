// The architectures that can be run, by the name in general.architecture.

import type { Arch } from "./arch.ts";
import { bert, jinaBertV2, jinaBertV3, nomicBert, nomicBertMoe } from "./bert.ts";
import { cohere2 } from "./cohere2.ts";
import { commandR } from "./command_r.ts";
import { deepseek2 } from "./deepseek2.ts";
import { euroBert } from "./eurobert.ts";
import { exaone4 } from "./exaone4.ts";
import { falcon } from "./falcon.ts";
import { gemma } from "./gemma.ts";
import { gemma2 } from "./gemma2.ts";
import { gemma3, gemmaEmbedding } from "./gemma3.ts";
import { glm4 } from "./glm4.ts";
import { gpt2 } from "./gpt2.ts";
import { gptNeox } from "./gptneox.ts";
import { gptOss } from "./gpt_oss.ts";
import { granite, graniteMoe } from "./granite.ts";
import { lfm2 } from "./lfm2.ts";
import { llama } from "./llama.ts";
import { mistral3 } from "./mistral3.ts";
import { modernBert } from "./modern_bert.ts";
import { neoBert } from "./neo_bert.ts";
import { olmo2 } from "./olmo2.ts";
import { olmoe } from "./olmoe.ts";
import { phi2 } from "./phi2.ts";
import { phi3 } from "./phi3.ts";
import { qwen2 } from "./qwen2.ts";
import { qwen2moe } from "./qwen2moe.ts";
import { qwen3 } from "./qwen3.ts";
import { qwen3moe } from "./qwen3moe.ts";
import { smollm3 } from "./smollm3.ts";
import { stablelm } from "./stablelm.ts";
import { starcoder2 } from "./starcoder2.ts";

export const ARCHS: ReadonlyMap<string, Arch> = new Map([
  ["llama", llama],
  ["mistral3", mistral3],
  ["qwen2", qwen2],
  ["qwen2moe", qwen2moe],
  ["qwen3", qwen3],
  ["qwen3moe", qwen3moe],
  ["gemma", gemma],
  ["gemma2", gemma2],
  ["gemma3", gemma3],
  ["phi2", phi2],
  ["phi3", phi3],
  ["smollm3", smollm3],
  ["gpt-oss", gptOss],
  ["gpt2", gpt2],
  ["gptneox", gptNeox],
  ["falcon", falcon],
  ["starcoder2", starcoder2],
  ["stablelm", stablelm],
  ["granite", granite],
  ["granitemoe", graniteMoe],
  ["command-r", commandR],
  ["cohere2", cohere2],
  ["glm4", glm4],
  ["olmo2", olmo2],
  ["olmoe", olmoe],
  ["exaone4", exaone4],
  ["deepseek2", deepseek2],
  ["lfm2", lfm2],
  ["bert", bert],
  ["nomic-bert", nomicBert],
  ["nomic-bert-moe", nomicBertMoe],
  ["jina-bert-v2", jinaBertV2],
  ["jina-bert-v3", jinaBertV3],
  ["modern-bert", modernBert],
  ["neo-bert", neoBert],
  ["eurobert", euroBert],
  ["gemma-embedding", gemmaEmbedding],
]);
