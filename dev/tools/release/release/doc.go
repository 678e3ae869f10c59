// Package release makes the files of a release: programs, images, the chart, lists of their parts, checksums, a statement of how they
// were made, and signatures. The same commit, version, Go and root certificates give the same bytes on any machine.
//
// See docs/reference/support-policy.md.
package release
