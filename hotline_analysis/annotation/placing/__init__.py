"""A model without frames is placed on the ops of its passes."""
