// Package announce says which destinations the network is to know, and by which nodes.
//
// watch.go follows nodes, Services and EndpointSlices, and objects.go reduces them to the vocabulary of package model.
// desired.go is the decision, a function of those, of the health states of the prober and of the config: two replicas that see
// the same announce the same. announcer.go is the loop that passes the table to each sink. condition_writer.go writes the
// condition Announced to Services, on the leader only.
package announce
