import { expect, it } from 'vitest';
import { PlanPoint } from '../../src/engine/plan-point.ts';

it('plans at once while no step has been timed', () => {
  const planPoint = new PlanPoint();
  expect(planPoint.layerShare).toBe(0);
  planPoint.update(1, false, 1000);
  expect(planPoint.layerShare).toBe(0);
});

it('leaves four times the time of the last planning to the end of a step', () => {
  const planPoint = new PlanPoint();
  planPoint.update(1, false, 1000);
  planPoint.update(1, true, 1100);
  expect(planPoint.layerShare).toBeCloseTo(0.96);
  planPoint.update(5, true, 1200);
  expect(planPoint.layerShare).toBeCloseTo(0.8);
});

it('plans at once where planning takes more than a quarter of a step', () => {
  const planPoint = new PlanPoint();
  planPoint.update(1, false, 1000);
  planPoint.update(30, true, 1100);
  expect(planPoint.layerShare).toBe(0);
});

it('takes no pause between two steps for the time of a step', () => {
  const planPoint = new PlanPoint();
  planPoint.update(1, false, 1000);
  planPoint.update(1, true, 1100);
  planPoint.update(50, false, 9000);
  expect(planPoint.layerShare).toBeCloseTo(0.96);
  planPoint.update(2, true, 9100);
  expect(planPoint.layerShare).toBeCloseTo(0.92);
});
