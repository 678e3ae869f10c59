// Package doctest tests the documentation: every command that the README and the tutorials show is run, by this package's tests or by
// one that it names, every flag and metric that a page names exists, and every link within the project leads somewhere.
package doctest
