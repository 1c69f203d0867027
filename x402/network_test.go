package x402_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/purserpay/purser/x402"
)

func TestPinnedSeparators(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"base":         "02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f",
		"base-sepolia": "71f17a3b2ff373b803d70a5a07c046c1a2bc8e89c09ef722fcb047abe94c9818",
		"polygon":      "caa2ce1a5703ccbe253a34eb3166df60a705c561b44b192061e28f2a985be2ca",
		"arbitrum":     "08d11903f8419e68b1b8721bcbe2e9fc68569122a77ef18c216f10b3b5112c78",
		"optimism":     "26d9c34bb1a1c312f69c53b2d93b8be20faafba63af2438c6811713c9b1f933f",
		"ethereum":     "06c37168a7db5138defc7866392bb87a741f9b3d104deb5094588ce041cae335",
		"avalanche":    "bbea200329a938bc3438984a49cb0732e66d66d7bd59c127abacc1710e77f7b3",
	}
	for _, n := range x402.Networks() {
		if n.Default != (n.Name == "base") {
			t.Errorf("%s: Default is %v", n.Name, n.Default)
		}
		if n.SafeTag != x402.TagSafe && n.SafeTag != x402.TagFinalized {
			t.Errorf("%s has the tag %q", n.Name, n.SafeTag)
		}
		if n.Rail != 0 { // its tokens take nothing that has a domain
			continue
		}
		for _, a := range n.Assets {
			computed := x402.DomainSeparator(a.Name, a.Version, n.ChainID, a.Address)
			if computed != a.DomainSeparator || hex.EncodeToString(computed[:]) != want[n.Name] {
				t.Errorf("%s %s: computed %x, pinned %x, want %s", n.Name, a.Symbol, computed, a.DomainSeparator, want[n.Name])
			}
			delete(want, n.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("not pinned: %v", want)
	}
}

func TestNetworkByWire(t *testing.T) {
	t.Parallel()
	for _, wire := range []string{"base", "eip155:8453"} {
		n, ok := x402.NetworkByWire(wire)
		if !ok || n.Name != "base" || n.CAIP2() != "eip155:8453" {
			t.Errorf("NetworkByWire(%q) = %+v, %v", wire, n, ok)
		}
	}
	for _, wire := range []string{"", "Base", "base ", "eip155:08453", "eip155:*", "8453", "celo", "eip155:42220", "eip155:11155111"} {
		if n, ok := x402.NetworkByWire(wire); ok {
			t.Errorf("NetworkByWire(%q) = %+v", wire, n)
		}
	}
}

func TestNetworksAreCopies(t *testing.T) {
	t.Parallel()
	first := x402.Networks()
	usdc := first[0].Assets[0].Address
	first[0].Assets[0] = x402.Asset{}
	first[0].Name = "changed"
	found, _ := x402.NetworkByWire("base")
	found.Assets[0] = x402.Asset{}
	n, ok := x402.NetworkByWire("base")
	if !ok {
		t.Fatal("base is gone")
	}
	if _, ok := n.Asset(usdc); !ok {
		t.Error("a caller changed the pinned table")
	}
	if _, ok := n.Asset(x402.Address{}); ok {
		t.Error("the zero address is an asset")
	}
}

func TestSameNetwork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"base", "eip155:8453", true},
		{"eip155:8453", "base", true},
		{"base", "base", true},
		{"polygon", "eip155:137", true},
		{"odd", "odd", true},
		{"base", "base-sepolia", false},
		{"base", "eip155:84532", false},
		{"base", "", false},
		{"base", "BASE", false},
	} {
		if got := x402.SameNetwork(c.a, c.b); got != c.want {
			t.Errorf("SameNetwork(%q, %q) = %v", c.a, c.b, got)
		}
	}
}

func TestNetworkLabel(t *testing.T) {
	t.Parallel()
	for wire, want := range map[string]string{
		"eip155:8453": "base", "base": "base", "eip155:137": "polygon", "eip155:999": "eip155:999",
		"bad\x00\n\xffname\u202e":     "badname",
		strings.Repeat("é", 70):       strings.Repeat("é", 64),
		strings.Repeat("\x07", 1<<16): "",
	} {
		if got := x402.NetworkLabel(wire); got != want {
			t.Errorf("NetworkLabel(%.40q) = %q, want %q", wire, got, want)
		}
	}
}
