package x402

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Asset is a token that purser pays with: one with EIP-3009, but for networks with a [Network.Rail]. Name and Version
// belong to its EIP-712 domain. DomainSeparator holds the answer of its contract to DOMAIN_SEPARATOR().
type Asset struct {
	Symbol string
	// Unit names the currency in which budgets and books count the token; "": Symbol. Tokens of one unit are worth
	// the same.
	Unit            string
	Address         Address
	Decimals        int
	Name, Version   string
	DomainSeparator [32]byte
}

// Network is a chain that purser pays on. Name is also the x402 v1 wire name, where v1 has one.
// Default networks are served when none is configured.
type Network struct {
	Name    string
	Title   string // as wallet apps show it
	ChainID uint64
	// Wire holds the CAIP-2 name of a network that is no EVM; "": the ChainID makes it.
	Wire    string
	Default bool
	// SafeTag is the tag of the newest block that the network will not take back: safe or finalized.
	SafeTag string
	// Rail is the only one that moves money on the network, if this package does not know it; 0: its own rails do.
	Rail Rail
	// Coin is the symbol of the currency that pays for gas. It has 18 decimals everywhere.
	Coin string
	// DataFee: beside the gas, a transaction pays for its data on Ethereum, as on each OP Stack chain.
	DataFee bool
	// GasBound is the most that one transaction of a wallet may cost, in wei of the coin, if no person has
	// seen its price. It is some ten times what a busy day has cost.
	GasBound uint64
	Assets   []Asset
}

// Tags of blocks that a network is not expected to take back.
const (
	// TagSafe: rollups have published the block on Ethereum; on Ethereum most validators voted for it.
	TagSafe = "safe"
	// TagFinalized serves where nodes have no safe block of their own. On Polygon it is the last
	// milestone (PIP-11), on Avalanche the last accepted block, which is final.
	TagFinalized = "finalized"
)

// pinned lists every network and asset that purser pays on, as read from the contracts. "USD Coin"
// and "USDC" are different domains. Tests compute the domain separators anew.
var pinned = []Network{
	{
		Name: "base", Title: "Base", ChainID: 8453, Default: true, SafeTag: TagSafe, Coin: "ETH", DataFee: true, GasBound: 1e15,
		Assets: []Asset{{
			Symbol: "USDC", Decimals: 6, Name: "USD Coin", Version: "2",
			Address:         must(ParseAddress("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913")),
			DomainSeparator: must(ParseNonce("0x02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f")),
		}},
	},
	{
		Name: "base-sepolia", Title: "Base Sepolia", ChainID: 84532, SafeTag: TagSafe, Coin: "ETH", DataFee: true, GasBound: 1e15,
		Assets: []Asset{{
			Symbol: "USDC", Decimals: 6, Name: "USDC", Version: "2",
			Address:         must(ParseAddress("0x036CbD53842c5426634e7929541eC2318f3dCF7e")),
			DomainSeparator: must(ParseNonce("0x71f17a3b2ff373b803d70a5a07c046c1a2bc8e89c09ef722fcb047abe94c9818")),
		}},
	},
	{
		Name: "polygon", Title: "Polygon", ChainID: 137, SafeTag: TagFinalized, Coin: "POL", GasBound: 2e18,
		Assets: []Asset{{
			Symbol: "USDC", Decimals: 6, Name: "USD Coin", Version: "2",
			Address:         must(ParseAddress("0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359")),
			DomainSeparator: must(ParseNonce("0xcaa2ce1a5703ccbe253a34eb3166df60a705c561b44b192061e28f2a985be2ca")),
		}},
	},
	{
		Name: "arbitrum", Title: "Arbitrum One", ChainID: 42161, SafeTag: TagSafe, Coin: "ETH", GasBound: 1e15,
		Assets: []Asset{{
			Symbol: "USDC", Decimals: 6, Name: "USD Coin", Version: "2",
			Address:         must(ParseAddress("0xaf88d065e77c8cC2239327C5EDb3A432268e5831")),
			DomainSeparator: must(ParseNonce("0x08d11903f8419e68b1b8721bcbe2e9fc68569122a77ef18c216f10b3b5112c78")),
		}},
	},
	{
		Name: "optimism", Title: "Optimism", ChainID: 10, SafeTag: TagSafe, Coin: "ETH", DataFee: true, GasBound: 1e15,
		Assets: []Asset{{
			Symbol: "USDC", Decimals: 6, Name: "USD Coin", Version: "2",
			Address:         must(ParseAddress("0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85")),
			DomainSeparator: must(ParseNonce("0x26d9c34bb1a1c312f69c53b2d93b8be20faafba63af2438c6811713c9b1f933f")),
		}},
	},
	{
		Name: "ethereum", Title: "Ethereum", ChainID: 1, SafeTag: TagSafe, Coin: "ETH", GasBound: 3e16,
		Assets: []Asset{{
			Symbol: "USDC", Decimals: 6, Name: "USD Coin", Version: "2",
			Address:         must(ParseAddress("0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48")),
			DomainSeparator: must(ParseNonce("0x06c37168a7db5138defc7866392bb87a741f9b3d104deb5094588ce041cae335")),
		}},
	},
	{
		Name: "avalanche", Title: "Avalanche", ChainID: 43114, SafeTag: TagFinalized, Coin: "AVAX", GasBound: 1e17,
		Assets: []Asset{{
			Symbol: "USDC", Decimals: 6, Name: "USD Coin", Version: "2",
			Address:         must(ParseAddress("0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E")),
			DomainSeparator: must(ParseNonce("0xbbea200329a938bc3438984a49cb0732e66d66d7bd59c127abacc1710e77f7b3")),
		}},
	},
	{
		// Package tempo pays on it. Fees are paid in the tokens themselves. Both are dollars, and count as one.
		Name: "tempo", Title: "Tempo", ChainID: 4217, SafeTag: TagFinalized, Coin: "USD", Rail: OtherRails,
		Assets: []Asset{
			{Symbol: "USDC.e", Unit: "USDC", Decimals: 6, Address: must(ParseAddress("0x20C000000000000000000000b9537d11c60E8b50"))},
			{Symbol: "pathUSD", Unit: "USDC", Decimals: 6, Address: must(ParseAddress("0x20c0000000000000000000000000000000000000"))},
		},
	},
}

// otherNames lists the x402 v1 names of networks that purser does not pay on. They serve messages
// and comparisons only.
var otherNames = []struct{ v1, v2 string }{
	{"sepolia", "eip155:11155111"},
	{"polygon-amoy", "eip155:80002"},
	{"avalanche-fuji", "eip155:43113"},
	{"abstract", "eip155:2741"},
	{"abstract-testnet", "eip155:11124"},
	{"iotex", "eip155:4689"},
	{"sei", "eip155:1329"},
	{"sei-testnet", "eip155:1328"},
	{"peaq", "eip155:3338"},
	{"story", "eip155:1514"},
	{"educhain", "eip155:41923"},
	{"skale-base-sepolia", "eip155:324705682"},
	{"megaeth", "eip155:4326"},
	{"monad", "eip155:143"},
	{"stable", "eip155:988"},
	{"stable-testnet", "eip155:2201"},
	{"celo", "eip155:42220"},
	{"flare", "eip155:14"},
	{"solana", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"},
	{"solana-devnet", "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"},
}

// Currency returns the currency in which budgets and books count the token.
func (a Asset) Currency() string { return cmp.Or(a.Unit, a.Symbol) }

// Tokens names the tokens that payments on the network move: "USDC", or "USDC.e or pathUSD".
func (n Network) Tokens() string {
	symbols := make([]string, len(n.Assets))
	for i, a := range n.Assets {
		symbols[i] = a.Symbol
	}
	return strings.Join(symbols, " or ")
}

// Networks returns a copy of the pinned table.
func Networks() []Network {
	networks := slices.Clone(pinned)
	for i := range networks {
		networks[i].Assets = slices.Clone(networks[i].Assets)
	}
	return networks
}

// DefaultNetworks returns the pinned networks that are paid on unless the operator says otherwise.
func DefaultNetworks() []Network {
	return slices.DeleteFunc(Networks(), func(n Network) bool { return !n.Default })
}

// NetworkByWire finds a pinned network by its v1 name ("base") or v2 name ("eip155:8453"). Only an exact match counts.
func NetworkByWire(wire string) (Network, bool) {
	for _, n := range pinned {
		if wire == n.Name || wire == n.CAIP2() {
			n.Assets = slices.Clone(n.Assets)
			return n, true
		}
	}
	return Network{}, false
}

// CAIP2 returns the x402 v2 wire name, such as "eip155:8453".
func (n Network) CAIP2() string {
	if n.Wire != "" {
		return n.Wire
	}
	return "eip155:" + strconv.FormatUint(n.ChainID, 10)
}

// Asset finds a pinned asset of n by its contract.
func (n Network) Asset(a Address) (Asset, bool) {
	for _, asset := range n.Assets {
		if asset.Address == a {
			return asset, true
		}
	}
	return Asset{}, false
}

// SameNetwork reports whether two wire values name one network, in its v1 or v2 form.
func SameNetwork(a, b string) bool { return a == b || v1Name(a) == v1Name(b) }

// NetworkLabel returns the name of a network for messages, at most 64 printable characters.
func NetworkLabel(wire string) string { return printable(v1Name(wire)) }

// v1Name returns the v1 name of a known network, and any other wire value unchanged.
func v1Name(wire string) string {
	for _, n := range pinned {
		if wire == n.CAIP2() {
			return n.Name
		}
	}
	for _, other := range otherNames {
		if wire == other.v2 {
			return other.v1
		}
	}
	return wire
}

// printable returns a value from outside for messages: 64 printable characters at most.
func printable(s string) string {
	const limit = 64
	var out strings.Builder
	kept := 0
	for _, r := range s {
		if kept == limit {
			break
		}
		if r != unicode.ReplacementChar && unicode.IsPrint(r) {
			out.WriteRune(r)
			kept++
		}
	}
	return out.String()
}

// must returns a value of the pinned table.
func must[T any](value T, err error) T {
	if err != nil {
		panic("x402: pinned table: " + err.Error())
	}
	return value
}
