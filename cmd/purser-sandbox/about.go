package main

import (
	"fmt"
	"io"
	"strings"
)

// about holds the addresses and keys of a sandbox. The help describes the fields.
type about struct {
	API         string `json:"api"`
	Dashboard   string `json:"dashboard"`
	Proxy       string `json:"proxy"`
	Key         string `json:"key"`
	Wallet      string `json:"wallet"`
	Seller      string `json:"seller"`
	SellerTLS   string `json:"seller_tls"`
	Facilitator string `json:"facilitator"`
	RPC         string `json:"rpc"`
	Token       string `json:"token"`
	CA          string `json:"ca"`
	Metrics     string `json:"metrics"`
	Admin       string `json:"admin"`
	Data        string `json:"data"`

	sellerDirect string
	purser       string // path of the program purser
}

// example holds shell commands that work as printed.
type example struct {
	title string
	lines []string
}

// header returns a shell filter that finds a header in the output of curl -i.
func header(name string) string {
	return fmt.Sprintf(`tr -d '\r' | awk 'tolower($1)=="%s:"{print $2}'`, strings.ToLower(name))
}

// member returns a shell filter that finds a string member of JSON.
func member(name string) string {
	return fmt.Sprintf(`sed 's/.*"%s":"\([^"]*\)".*/\1/'`, name)
}

// examples returns the commands to print.
func (a about) examples() []example {
	key := quote("X-Api-Key: " + a.Key)
	through := "-x " + quote(a.Proxy)
	return []example{
		{
			"An ordinary client, paid for on the way: 200, Purser-Payment, Purser-Amount, Purser-Transaction",
			[]string{"curl -i " + through + " " + a.Seller + "/weather"},
		},
		{
			"The same with a body, and as server-sent events",
			[]string{
				"curl -i " + through + " -d 'hello' " + a.Seller + "/echo",
				"curl -iN " + through + " " + a.Seller + "/stream",
			},
		},
		{
			"A seller that speaks MPP. Its list says how it can behave: it rotates its challenges, loses answers, and lies",
			[]string{
				"curl -i " + through + " " + a.Seller + "/mpp/weather",
				"curl -i " + through + " " + a.Seller + "/mpp/settles-denies",
				"curl -s " + a.sellerDirect + "/mpp/",
			},
		},
		{
			"Limits hold: 2.50 USDC is more than a proxied request may cost (PURSER_MAX_PAYMENT), so its 402 comes back, with Purser-Declined",
			[]string{"curl -i " + through + " " + a.Seller + "/report"},
		},
		{
			"https, which purser opens on the way: the client trusts its root",
			[]string{"curl -i " + through + " --cacert " + quote(a.CA) + " " + a.SellerTLS + "/weather"},
		},
		{
			"The same without a word about purser: whatever runs so has proxy, key and root in its environment",
			[]string{quote(a.purser) + " exec --admin " + quote(a.Admin) + " -- curl -i " + a.SellerTLS + "/weather"},
		},
		{
			"What keys may spend",
			[]string{quote(a.purser) + " limits --admin " + quote(a.Admin)},
		},
		{
			"The REST API, where purser settles and the seller delivers for it; each idempotencyKey is paid once",
			[]string{
				"url=" + a.sellerDirect + "/prepaid",
				`challenge=$(curl -si "$url" | ` + header("PAYMENT-REQUIRED") + ")",
				"paid=$(curl -s " + a.API + "/v1/pay -H " + key +
					` -d "{\"paymentRequiredHeader\":\"$challenge\",\"requestUrl\":\"$url\",\"idempotencyKey\":\"prepaid-$(date +%s)\"}")`,
				`echo "$paid"`,
				`curl -i "$url" -H "PAYMENT-SIGNATURE: $(echo "$paid" | ` + member("paymentSignature") + `)"`,
			},
		},
		{
			"The REST API, where an ordinary seller settles, and purser is told with the seller's receipt",
			[]string{
				"url=" + a.sellerDirect + "/weather",
				`challenge=$(curl -si "$url" | ` + header("PAYMENT-REQUIRED") + ")",
				"paid=$(curl -s " + a.API + "/v1/pay -H " + key +
					` -d "{\"paymentRequiredHeader\":\"$challenge\",\"requestUrl\":\"$url\",\"settlement\":\"seller\",\"idempotencyKey\":\"weather-$(date +%s)\"}")`,
				`answer=$(curl -si "$url" -H "PAYMENT-SIGNATURE: $(echo "$paid" | ` + member("paymentSignature") + `)")`,
				`echo "$answer"`,
				"curl -s " + a.API + `/v1/payments/$(echo "$paid" | ` + member("id") + ")/receipt -H " + key +
					` -d "{\"receipt\":\"$(echo "$answer" | ` + header("PAYMENT-RESPONSE") + `)\"}"`,
			},
		},
		{
			"What was spent, purser's state, and its metrics",
			[]string{
				"curl -s -H " + key + " " + a.API + "/v1/spend",
				"curl -s " + a.API + "/health",
				"curl -s " + a.Metrics + " | grep ^purser_",
			},
		},
	}
}

// print writes the addresses and examples for people. Commands are indented by four spaces.
func (a about) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, `
purser is ready. Nothing here has value: the money is play money on a chain that ends with this program.

  dashboard      %s  (sign-in is one click)
  API and proxy  %s
  key            %s
  wallet         %s  (%s USDC; never fund this address)
  paid API       %s  and  %s  (names that purser's proxy knows)
  without proxy  %s  (GET / lists what it sells)
  facilitator    %s
  JSON-RPC       %s  (token %s)
  admin          %s
  data           %s

Things to try:
`, a.Dashboard, a.API, a.Key, a.Wallet, funds, a.Seller, a.SellerTLS, a.sellerDirect, a.Facilitator, a.RPC, a.Token, a.Admin, a.Data)
	for _, e := range a.examples() {
		fmt.Fprintf(&b, "\n# %s\n", e.title)
		for _, line := range e.lines {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	fmt.Fprintf(&b, "\nAn agent: %s exec --admin %s -- COMMAND\nCtrl-C ends everything.\n", quote(a.purser), quote(a.Admin))
	_, err := io.WriteString(w, b.String())
	return err
}

// quote quotes one word for the shell.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
