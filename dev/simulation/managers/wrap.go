package managers

import (
	"net/http"

	cloudprovider "k8s.io/cloud-provider"
)

// Wrapper stands between a manager and what surrounds it. Tests make a manager wrong by one. A nil field changes nothing.
type Wrapper struct {
	// Transport wraps the way to the API server, for each process.
	Transport func(http.RoundTripper) http.RoundTripper
	// Plugin wraps the plugin of each process.
	Plugin func(*Incarnation, cloudprovider.Interface) cloudprovider.Interface
}

// Wrapped returns a manager of another name with a wrapper.
func (m *Manager) Wrapped(name string, wrapper Wrapper) *Manager {
	wrapped := *m
	wrapped.Name, wrapped.wrapper = name, wrapper
	return &wrapped
}

// wrap returns the settings of a process with the wrapper of its manager.
func (m *Manager) wrap(settings Settings) Settings {
	if wrap := m.wrapper.Transport; wrap != nil {
		settings.Transport = wrap(settings.Transport)
	}
	if wrap, plugin := m.wrapper.Plugin, settings.Plugin; wrap != nil {
		settings.Plugin = func(process *Incarnation) cloudprovider.Interface { return wrap(process, plugin(process)) }
	}
	return settings
}
