// Package api is what the simulated cloud and its clients say to each other: the types of the HTTP JSON API under /v1,
// its errors, and a small client.
//
// A client names an instance by its ID, a load balancer by its name and a route by its ID. What a client writes is a Spec; what the cloud
// answers is the spec and what the cloud made of it. Every answer carries a generation, which is also its ETag. A write with that ETag in
// If-Match fails with 412 if another client wrote in between.
//
// A list is a sequence of pages of one snapshot. Writes between two pages do not change the sequence; a snapshot that the
// cloud no longer holds is the error CodePageTokenExpired, never a shorter list.
package api
