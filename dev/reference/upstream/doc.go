// Package upstream reads the tables of test cases in the reference's own unit tests, as a test runs: it parses the files in the module cache and evaluates
// the literals, and the functions that build them, into objects of the API. No code of theirs is compiled or kept here.
//
// The evaluator knows what such literals are made of: composite literals, constants, functions and closures of the test file, assignments, conditions and
// loops. Names of other packages are those of names.go. What a test does with its controller is not evaluated: a value that the evaluator cannot make is opaque or
// missing, and reading it says why.
package upstream
