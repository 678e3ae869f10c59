// Package plain registers nothing.
package plain
