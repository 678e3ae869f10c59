// Package docs tests the documentation: every command that the README and the tutorials show is run, by this package's tests or
// by a test that it names.
package docs
