package config

// Pool is a set of addresses for load balancers.
type Pool struct {
	// Name is unique among the pools.
	Name string `json:"name"`
}
