// Package writes measures what each kind of write of a Node costs the API server: the processor time that it needs for the two writes
// of an initialization, which are what a mass join waits for (ADR 13).
package writes
