// How many tokens an image of Gemma 4 may become.

/** Of these, one is the most that an image becomes. */
export const TOKEN_LIMITS = [70, 140, 280, 560, 1120] as const;

export const MOST_TOKENS = Math.max(...TOKEN_LIMITS);
