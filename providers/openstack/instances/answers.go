package instances

// server is what of a server of Nova is looked at.
type server struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Status string `json:"status"`
	Flavor struct {
		OriginalName string `json:"original_name"`
	} `json:"flavor"`
	// Addresses are by the names of networks.
	Addresses        map[string][]serverAddress `json:"addresses"`
	AccessIPv4       string                     `json:"accessIPv4"`
	AccessIPv6       string                     `json:"accessIPv6"`
	Metadata         map[string]string          `json:"metadata"`
	AvailabilityZone string                     `json:"OS-EXT-AZ:availability_zone"`
}

// serverAddress is an address as Nova remembers it, from a moment ago at best.
type serverAddress struct {
	Address string `json:"addr"`
	// Type is fixed or floating.
	Type string `json:"OS-EXT-IPS:type"`
}

// port is what of a port of Neutron is looked at.
type port struct {
	ID        string `json:"id"`
	DeviceID  string `json:"device_id"`
	NetworkID string `json:"network_id"`
	Status    string `json:"status"`
	FixedIPs  []struct {
		Address string `json:"ip_address"`
	} `json:"fixed_ips"`
	// Trunk is the trunk whose parent the port is.
	Trunk *struct {
		SubPorts []struct {
			PortID string `json:"port_id"`
		} `json:"sub_ports"`
	} `json:"trunk_details"`
}

// portFields are the fields of a port that Neutron is asked for.
var portFields = []string{"id", "device_id", "network_id", "status", "fixed_ips", "trunk_details"}

// ports are ports in the ways in which they are looked for.
type ports struct {
	byServer map[string][]port
	byID     map[string]port
	// networks are the names of the networks that subports are in.
	networks map[string]string
}

func newPorts(all []port) ports {
	p := ports{byServer: map[string][]port{}, byID: map[string]port{}, networks: map[string]string{}}
	p.add(all)
	return p
}

func (p ports) add(more []port) {
	for _, one := range more {
		if _, twice := p.byID[one.ID]; twice {
			continue
		}
		p.byID[one.ID] = one
		if one.DeviceID != "" {
			p.byServer[one.DeviceID] = append(p.byServer[one.DeviceID], one)
		}
	}
}

// subPorts are the ports of the trunks that a server has.
func (p ports) subPorts(server string) []port {
	var found []port
	for _, parent := range p.byServer[server] {
		if parent.Trunk == nil {
			continue
		}
		for _, sub := range parent.Trunk.SubPorts {
			if one, known := p.byID[sub.PortID]; known {
				found = append(found, one)
			}
		}
	}
	return found
}
