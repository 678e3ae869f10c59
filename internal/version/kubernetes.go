package version

// TestedKubernetes returns the versions of Kubernetes whose control planes Mooring is tested on, the oldest first.
func TestedKubernetes() []string { return []string{"v1.34.4", "v1.35.4", "v1.36.3", "v1.37.2"} }
