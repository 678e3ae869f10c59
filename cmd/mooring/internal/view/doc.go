// Package view turns what is known of a manager, its plan and its cluster into rows that people read, and those into text. It is
// pure: it asks nobody and reads no clock.
package view
