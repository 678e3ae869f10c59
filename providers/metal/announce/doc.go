// Package announce says which destinations the network is to know, and by which nodes.
//
// watch.go follows nodes, Services and EndpointSlices, and objects.go reduces them to the vocabulary of package model.
// desired.go is the decision, a function of those, of the verdicts of the prober and of the config: two replicas that see the
// same announce the same. announcer.go is the loop that hands the table to whoever announces it. tell.go writes to Services, on
// the leader only, what became of them.
package announce
