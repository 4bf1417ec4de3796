// Promises with a limit of time.

/** What `answer` comes to; rejects with `reason` when that takes longer than `timeoutMs`, default: as long as it takes. */
export async function within<T>(
  answer: Promise<T>,
  timeoutMs?: number,
  reason: string = "no answer",
): Promise<T> {
  if (timeoutMs === undefined) return answer;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(reason)), timeoutMs);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}
