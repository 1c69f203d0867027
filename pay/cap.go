package pay

import (
	"encoding/json"
	"fmt"

	"github.com/purserpay/purser/x402"
)

// Cap is a bound on an amount in the smallest unit of USDC, or "off": no bound, where
// otherwise a default would hold. A nil *Cap is not set.
type Cap struct {
	off bool
	max x402.Amount
}

// CapOf is a bound.
func CapOf(most x402.Amount) *Cap { return &Cap{max: most} }

// NoCap is "off".
func NoCap() *Cap { return &Cap{off: true} }

// Max is the bound; nil for one that is off or not set.
func (c *Cap) Max() *x402.Amount {
	if c == nil || c.off {
		return nil
	}
	return &c.max
}

const capOff = "off"

// String is the amount, "off", or "" for one that is not set.
func (c *Cap) String() string {
	switch {
	case c == nil:
		return ""
	case c.off:
		return capOff
	}
	return c.max.String()
}

// MarshalJSON writes a decimal string or "off".
func (c Cap) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Cap) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err == nil && s == capOff {
		*c = Cap{off: true}
		return nil
	}
	var most x402.Amount
	if err := json.Unmarshal(b, &most); err != nil {
		return fmt.Errorf("neither an amount nor off: %w", err)
	}
	*c = Cap{max: most}
	return nil
}
