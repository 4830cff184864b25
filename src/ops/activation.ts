// The functions between the products of a feed-forward.

/** silu: x * sigmoid(x). gelu: x * P(X <= x) of a normal X; gelu_tanh: its approximation by a tanh. relu: max(x, 0); relu2: its square. */
export type Activation = 'silu' | 'gelu' | 'gelu_tanh' | 'relu' | 'relu2';

/**
 * The factors of xIELU, an activation that is learned: positive * x² + linear * x of x above 0, else
 * negative * (exp(min(x, least)) - 1 - x) + linear * x. Source: Huang and Schlag, "Deriving Activation Functions Using Integration", 2024.
 */
export interface Xielu {
  readonly positive: number;
  readonly negative: number;
  readonly linear: number;
  /** Below 0, next to it. */
  readonly least: number;
}

/**
 * What becomes of a gate and what it lets through: activation(gate) * up. clamped_swiglu, of gpt-oss: g * sigmoid(1.702 g) *
 * (u + 1) of the gate g, at most 7, and u, up between -7 and 7.
 */
export type GatedActivation = Activation | 'clamped_swiglu';
