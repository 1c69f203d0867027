package caddymodule

// No Caddy here: modules read their options from JSON as package options does.

import "github.com/purserpay/purser/internal/options"

// UnmarshalJSON implements json.Unmarshaler.
func (a *App) UnmarshalJSON(text []byte) error { return options.Decode(text, a) }

// UnmarshalJSON implements json.Unmarshaler.
func (h *Proxy) UnmarshalJSON(text []byte) error { return options.Decode(text, h) }

// UnmarshalJSON implements json.Unmarshaler.
func (h *API) UnmarshalJSON(text []byte) error { return options.Decode(text, h) }

// UnmarshalJSON implements json.Unmarshaler.
func (h *Upstream) UnmarshalJSON(text []byte) error { return options.Decode(text, h) }

// UnmarshalJSON implements json.Unmarshaler.
func (h *Transport) UnmarshalJSON(text []byte) error { return options.Decode(text, h) }

// UnmarshalJSON implements json.Unmarshaler.
func (l *Listener) UnmarshalJSON(text []byte) error { return options.Decode(text, l) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *BoltStore) UnmarshalJSON(text []byte) error { return options.Decode(text, s) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *PostgresStore) UnmarshalJSON(text []byte) error { return options.Decode(text, s) }

// UnmarshalJSON implements json.Unmarshaler.
func (w *ExternalWallets) UnmarshalJSON(text []byte) error { return options.Decode(text, w) }

// UnmarshalJSON implements json.Unmarshaler.
func (w *CDPWallets) UnmarshalJSON(text []byte) error { return options.Decode(text, w) }

// UnmarshalJSON implements json.Unmarshaler.
func (f *HTTPFacilitator) UnmarshalJSON(text []byte) error { return options.Decode(text, f) }
