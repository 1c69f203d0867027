package caddymodule

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRPCsOfNetworks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rpc")
	if err := os.WriteFile(file, []byte("https://file.example.com/key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		set   map[string]string
		given map[string]NetworkOptions
		want  map[string]string // "network first second"; or
		fails string
	}{
		"the first network's": {
			set:  map[string]string{"PURSER_RPC_URL": "https://a", "PURSER_RPC_URL_2": "https://b"},
			want: map[string]string{"base": "https://a https://b"},
		},
		"each its own": {
			set: map[string]string{
				"PURSER_NETWORKS": "polygon, base-sepolia,ethereum", "PURSER_RPC_URL": "https://p", "PURSER_RPC_URL_BASE_SEPOLIA": "https://s",
				"PURSER_RPC_URL_BASE_SEPOLIA_2": "https://s2", "PURSER_RPC_URL_ARBITRUM": "https://unused",
			},
			want: map[string]string{"polygon": "https://p ", "base-sepolia": "https://s https://s2", "ethereum": " "},
		},
		"from a file": {
			set:  map[string]string{"PURSER_NETWORKS": "base,polygon", "PURSER_RPC_URL_FILE": file, "PURSER_RPC_URL_POLYGON_FILE": file},
			want: map[string]string{"base": "https://file.example.com/key ", "polygon": "https://file.example.com/key "},
		},
		"from the configuration": {
			set:   map[string]string{"PURSER_NETWORKS": "base,polygon", "PURSER_RPC_URL_POLYGON": "https://unused"},
			given: map[string]NetworkOptions{"polygon": {RPCURL: "https://p"}},
			want:  map[string]string{"base": " ", "polygon": "https://p "},
		},
		"two for one":        {set: map[string]string{"PURSER_RPC_URL": "https://a", "PURSER_RPC_URL_BASE": "https://b"}, fails: "PURSER_RPC_URL_BASE is set as well"},
		"value and file":     {set: map[string]string{"PURSER_RPC_URL": "https://a", "PURSER_RPC_URL_FILE": file}, fails: "PURSER_RPC_URL_FILE is set as well"},
		"only a second":      {set: map[string]string{"PURSER_NETWORKS": "base,polygon", "PURSER_RPC_URL": "https://a", "PURSER_RPC_URL_POLYGON_2": "https://b"}, fails: "needs PURSER_RPC_URL_POLYGON"},
		"twice the same":     {set: map[string]string{"PURSER_RPC_URL": "https://a", "PURSER_RPC_URL_2": "https://a"}, fails: "agrees with itself"},
		"no URL":             {set: map[string]string{"PURSER_RPC_URL_BASE": "secret-key"}, fails: "PURSER_RPC_URL_BASE"},
		"an unknown network": {set: map[string]string{"PURSER_NETWORKS": "base,solana"}, fails: `unknown network "solana"`},
		"named twice":        {set: map[string]string{"PURSER_NETWORKS": "base,base"}, fails: "base is named twice"},
		"one not paid on":    {given: map[string]NetworkOptions{"polygon": {RPCURL: "https://p"}}, fails: "not in networks"},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range c.set {
				t.Setenv(variable, value)
			}
			s, err := (&App{NetworkTable: c.given}).resolve()
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) || strings.Contains(err.Error(), "secret-key") {
					t.Fatalf("error %v, want %q", err, c.fails)
				}
				return
			}
			got := map[string]string{}
			for network, r := range s.rpcs {
				got[network] = r.first.url + " " + r.second.url
			}
			if err != nil || !maps.Equal(got, c.want) {
				t.Fatalf("%v, %v", got, err)
			}
			if len(s.networks) != len(c.want) || s.secondRPCs() != slices.ContainsFunc(slices.Collect(maps.Values(c.want)), func(w string) bool { return !strings.HasSuffix(w, " ") }) {
				t.Errorf("%d networks, second RPCs %v", len(s.networks), s.secondRPCs())
			}
		})
	}
}
