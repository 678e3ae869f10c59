// Package ccmbuild builds a cloud controller manager from packages that register providers: it writes the program that a
// vendor would write, has the go tool resolve and build it, and says what the go tool's messages mean.
//
// It goes one way. What was asked for (desired.go) and what was seen of directories and versions (observe.go) become a plan
// (plan.go): the files of a module, the arguments of the go tool. Then the plan is carried out (build.go, resolve.go), what was
// built is asked for its providers (probe.go), and only then put where it belongs (target.go).
package ccmbuild
