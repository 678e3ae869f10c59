package config

// Announcement says which next hops an address gets.
type Announcement struct{}

// L2 answers ARP and neighbour solicitations.
type L2 struct{}
