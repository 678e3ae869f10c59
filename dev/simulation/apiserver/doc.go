// Package apiserver is an API server in memory, as an http.RoundTripper.
package apiserver
