// Package view turns what is known of a manager, its plan and its cluster into rows that people read, and those into text. It is pure: it
// calls no API and reads no clock.
package view
