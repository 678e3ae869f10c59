package config

// Inventory says which machines there are.
type Inventory struct {
	// Machines are listed here.
	Machines []Machine `json:"machines,omitempty"`
}

// Machine is one machine that is or may become a node.
type Machine struct {
	// Name is unique in the inventory and part of no other name's identity: see ID.
	Name string `json:"name"`
}

// Power says how the power state of machines is read.
type Power struct{}
