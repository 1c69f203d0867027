// Package installation examines the installation of a purser: where it listens, what it reaches, its
// files and variables, and what keys may spend. It changes nothing.
package installation

import (
	"encoding/json"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/purserpay/purser/internal/exposure"
)

// Addresses names the URLs of the doors of a configuration, for programs on this machine.
type Addresses struct {
	Proxy     []string `json:"proxy"`
	REST      []string `json:"rest"`
	Sidecar   []string `json:"sidecar"`
	Dashboard []string `json:"dashboard"`
	Metrics   []string `json:"metrics"`
	// Exposed lists what other machines can reach, as it is configured.
	Exposed []string `json:"exposed"`
}

// caddyConfig holds what is read of a configuration of Caddy's, in JSON.
type caddyConfig struct {
	Admin *struct {
		Disabled bool   `json:"disabled"`
		Listen   string `json:"listen"`
	} `json:"admin"`
	Storage *struct {
		Root string `json:"root"`
	} `json:"storage"`
	Apps struct {
		Purser json.RawMessage `json:"purser"`
		HTTP   struct {
			Servers map[string]struct {
				Listen []string `json:"listen"`
				Routes any      `json:"routes"`
			} `json:"servers"`
		} `json:"http"`
	} `json:"apps"`
}

// handlers maps the names of Caddy's handlers to their doors.
func (a *Addresses) handlers() map[string]struct {
	urls *[]string
	path string
} {
	type door = struct {
		urls *[]string
		path string
	}
	return map[string]door{
		"purser_proxy": {&a.Proxy, ""}, "purser_api": {&a.REST, ""}, "purser_upstream": {&a.Sidecar, ""},
		"purser_dashboard": {&a.Dashboard, "/dashboard"}, "metrics": {&a.Metrics, "/metrics"},
	}
}

// AddressesIn reads a configuration of Caddy's. References to variables, such as {env.PORT}, are replaced.
func AddressesIn(config []byte, getenv func(string) string) (Addresses, error) {
	var c caddyConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return Addresses{}, err
	}
	var a Addresses
	doors := a.handlers()
	for _, server := range c.Apps.HTTP.Servers {
		names := map[string]bool{}
		walk(server.Routes, func(o map[string]any) {
			if name, is := o["handler"].(string); is {
				names[name] = true
			}
		})
		for name := range names {
			door, known := doors[name]
			if !known {
				continue
			}
			for _, listen := range server.Listen {
				listen = filled(listen, getenv)
				*door.urls = append(*door.urls, urlOf(listen)+door.path)
				if !exposure.Loopback(listen) {
					a.Exposed = append(a.Exposed, listen)
				}
			}
		}
	}
	for _, list := range []*[]string{&a.Proxy, &a.REST, &a.Sidecar, &a.Dashboard, &a.Metrics, &a.Exposed} {
		slices.Sort(*list)
		*list = append([]string{}, slices.Compact(*list)...)
	}
	return a, nil
}

// walk visits every object in a value.
func walk(v any, visit func(map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		visit(v)
		for _, inner := range v {
			walk(inner, visit)
		}
	case []any:
		for _, inner := range v {
			walk(inner, visit)
		}
	}
}

var reference = regexp.MustCompile(`\{env\.([^{}]+)\}`)

// filled replaces references to variables.
func filled(text string, getenv func(string) string) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		return getenv(reference.FindStringSubmatch(found)[1])
	})
}

// urlOf returns the URL by which programs of this machine reach a listener.
func urlOf(listen string) string {
	if strings.HasPrefix(listen, "unix/") {
		return listen
	}
	host, port, err := net.SplitHostPort(listen[strings.LastIndex(listen, "/")+1:])
	if err != nil {
		return listen
	}
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
