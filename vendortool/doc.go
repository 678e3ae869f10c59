// Package vendortool is the part of the tool mooring that a provider's author or user runs with a provider linked in: conformance and
// orphans. A program that imports providers and calls Main is that tool for those providers; "mooring build --tool" writes and builds
// one.
package vendortool
