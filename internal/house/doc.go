// Package house holds no code: its test keeps the arrows between packages pointing inwards.
package house
